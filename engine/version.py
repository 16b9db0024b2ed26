"""Which version of the program this is."""

CODE_VERSION = "0.1.0"
