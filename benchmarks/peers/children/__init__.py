"""One module per library: a process that computes its rounds. They import that library, and run in its environment."""
