"""One chart per file: ``data()`` makes a table from records, and ``figure()`` draws it."""
