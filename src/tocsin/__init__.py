"""Tocsin: notification delivery that keeps its promises."""
