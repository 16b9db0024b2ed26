"""Parts that several pages share: the frames of pages and charts, and live curves."""
