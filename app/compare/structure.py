"""The panel on clustered methods: which clients are grouped together, and in how many clusters."""

from app.charts import cluster_raster
from app.compare.view import View
from app.components import page
from app.data import queries
from app.inside.cluster_number import how_many_clusters
from app.state import url_state


@url_state.fragment
def clustered(view: View) -> None:
    grouped = queries.clustered(list(view.runs))
    labelled = {
        str(run.id): f"{method.name}, seed {run.seed}"
        for method in view.best_first()
        for run in method.runs
        if run.id in grouped
    }
    if not labelled:
        return
    page.section("Do the clusters settle?")
    several = (run_id for run_id in labelled if queries.clusters(int(run_id))[1][-1].any())
    run_id = int(url_state.pick("Clusters of", labelled, "clusters", next(several, next(iter(labelled)))))
    contexts = (queries.partition(run_id) or {}).get("contexts")
    cells = cluster_raster.data(*queries.clusters(run_id), contexts)
    page.finding_chart(
        cluster_raster.figure(cells),
        cluster_raster.memberships(cells),
        cluster_raster.finding(cells),
        key="raster",
        name="clusters",
        title="Cluster of each client, round by round",
    )
    how_many_clusters(view.runs[run_id])
