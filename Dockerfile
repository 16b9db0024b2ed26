FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1
WORKDIR /fedscape

COPY requirements.txt .
RUN pip install --require-hashes -r requirements.txt

COPY . .
RUN useradd --create-home fedscape && mkdir -p var data && chown fedscape var data
USER fedscape

# Runs and models live in var/, data sets in data/: mount both to keep them.
VOLUME ["/fedscape/var", "/fedscape/data"]
ENV HOST=0.0.0.0 PORT=8501
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(f'http://127.0.0.1:{os.environ[\"PORT\"]}/_stcore/health', timeout=4)"]
CMD ["python", "-m", "app"]
