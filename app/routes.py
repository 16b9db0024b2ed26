"""Addresses of the routes beside the pages, and whether this process serves them."""

FEED = "/live/feed"
OVERVIEW = "/live/overview"
PLOTLY = "/live/plotly.js"

are_served = False  # set by the web server when it starts; pages run without it, too
