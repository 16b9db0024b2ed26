"""The version of the program."""

CODE_VERSION = "0.1.0"
