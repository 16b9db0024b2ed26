"""The papers' figures and tables: their runs, progress, and the printed numbers next to ours."""
