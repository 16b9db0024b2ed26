"""One chart a file: ``data()`` turns records into a table, ``figure()`` the table into a picture."""
