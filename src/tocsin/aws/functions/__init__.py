"""What the functions on AWS are made of; it imports no package of the server, so that a zip stays small."""
