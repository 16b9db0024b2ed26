"""Charts as they are printed in a paper: vector files of an exact size, drawn from the figures of the screen."""
