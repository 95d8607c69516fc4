import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Use one thread: for tiny matrix products, threads spend more time on synchronisation than on work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
