"""Addresses that the web server answers in addition to Streamlit's (``app/server/routes.py``).

Under ``streamlit run app/main.py`` there are none of these, and pages fall back to reruns.
"""

import plotly

FEED = "/live/feed"
OVERVIEW = "/live/overview"
ROOM = "/learn/room"
PLOTLY = "/live/plotly.js"
LIBRARY = f"{PLOTLY}?v={plotly.__version__}"  # another address for another version: browsers keep it for a year

are_served = False  # set by the web server when it starts
