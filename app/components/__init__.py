"""What several pages show: the frame of a page, the frame of a chart, the curves that grow."""
