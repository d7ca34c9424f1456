"""What Tocsin does on AWS: publishes to topics, archives them, delivers from functions."""
