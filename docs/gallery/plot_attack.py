"""
A black-box attack
==================

How robust is a classifier, if an attacker sees scores and nothing else? :func:`goldstein.attack.attack` looks for
images close to given ones that the classifier gets wrong, and counts every image that the model is shown. Here the
model is a small network of scikit-learn on its 8 × 8 digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from goldstein.attack import attack, sklearn_model

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The model
# ---------
# Pixels are in [0, 1]. An attack needs nothing but a callable from images to scores; ``sklearn_model`` makes one.

X, y = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(X / 16, y, random_state=0)
network = MLPClassifier((64,), max_iter=1000, random_state=0).fit(train_x, train_y)
print(f"right on {network.score(test_x, test_y):.1%} of the digits that it has not seen")

# %%
# The attack
# ----------
# No pixel may change by more than 0.1, and no image may be shown more than 500 times.

images = test_x[:60].reshape(-1, 1, 8, 8).astype(np.float32)
res = attack(sklearn_model(network), images, test_y[:60], radius=0.1, max_queries=500, seed=0)
print(
    f"fooled on {res.success.sum()} of {len(images)} images; median queries {np.median(res.queries[res.success]):.0f}"
)
print("most that a pixel was changed:", float(np.abs(res.x - images).max()))

# %%
# The random numbers of an image come from the seed and its own pixels, so that its answer does not depend on the
# others.

at = np.arange(1, 501)
figure = plt.figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.1])
axes = left.subplots()
axes.plot(at, 100 * res.curve(at))
axes.set(xlabel="queries allowed for an image", ylabel="images fooled, %", ylim=(0, 103))
axes.grid(alpha=0.3)
fooled = np.flatnonzero(res.success)[:4]
grid = right.subplots(2, 4)
guesses = network.predict(res.x[fooled].reshape(len(fooled), -1))
for column, image in enumerate(fooled):
    for row, picture in enumerate((images[image, 0], res.x[image, 0])):
        grid[row, column].imshow(picture, cmap="gray", vmin=0, vmax=1)
        grid[row, column].set_axis_off()
    grid[0, column].set_title(f"{test_y[image]}", fontsize="medium")
    grid[1, column].set_title(f"seen as {guesses[column]}", fontsize="medium")
