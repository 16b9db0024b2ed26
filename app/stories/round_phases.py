"""The four phases of a round of federated averaging."""

SEND, TRAIN, RETURN, AVERAGE = range(4)
WORDS = {
    SEND: "the server sends the shared model to {clients}",
    TRAIN: "{each} trains its copy on its own images",
    RETURN: "{each} returns its copy; the images stay",
    AVERAGE: "the server averages the {copies}",
}


def in_words(phase: int, num_clients: int) -> str:
    """A sentence on what happens in a phase."""
    if num_clients == 1:
        return WORDS[phase].format(clients="the client", each="the client", copies="one copy")
    return WORDS[phase].format(clients=f"all {num_clients} clients", each="each client", copies="copies")
