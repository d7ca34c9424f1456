"""AsyncAPI documents of the streams, from the models of their entries and the galaxy catalog."""
