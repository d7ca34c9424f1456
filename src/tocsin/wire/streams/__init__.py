"""The entries of Redis streams, shared by those who append them and those who read them."""
