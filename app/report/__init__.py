"""A comparison as one HTML file that opens anywhere, without a server and without a network."""
