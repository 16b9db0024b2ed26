"""The stories of the Learn page: one question each, and a small run that trains while the reader watches."""
