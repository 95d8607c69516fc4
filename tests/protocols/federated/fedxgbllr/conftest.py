import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Threads of tiny matrix products wait for each other longer than they work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
