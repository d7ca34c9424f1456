"""Delivery to phones by the endpoints that SNS has for them."""
