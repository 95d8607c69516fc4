"""Reports as pages: self-contained HTML documents."""

from sharewood.page.demo import demo_page
from sharewood.page.party import prediction_page, training_page

__all__ = ["demo_page", "prediction_page", "training_page"]
