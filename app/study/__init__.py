"""The parts of the Study page: how settings were chosen on validation data, and the results on test data."""
