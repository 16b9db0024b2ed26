"""The papers' figures and tables: their runs, progress, and the printed numbers beside ours."""
