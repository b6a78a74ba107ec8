"""scikit-learn estimators trained from values of their loss alone (extra: sklearn)."""

from goldstein.extras import check_installed

check_installed(["sklearn"], "goldstein.sklearn")

from goldstein.sklearn.classifier import CappedL1SVC  # noqa: E402
from goldstein.sklearn.regressor import RobustRegressor  # noqa: E402

__all__ = ["CappedL1SVC", "RobustRegressor"]
