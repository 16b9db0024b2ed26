"""The parts of Study: settings chosen on validation data, and what they are worth on the test data."""
