# SPDX-License-Identifier: Apache-2.0
"""Quantities of Kubernetes: 8Gi, 1500M, 1e9, 100m."""

import decimal
import re

FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?")
FACTORS = {None: decimal.Decimal(1),
           **{f"{letter}i": decimal.Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")},
           **{letter: decimal.Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")},
           **{letter: decimal.Decimal(1000) ** -(i + 1) for i, letter in enumerate("mun")}}


def parse(text):
    """As a Decimal. Raises ValueError."""
    match = FORM.fullmatch(str(text))
    if not match:
        raise ValueError(f"{text!r} is no quantity")
    return decimal.Decimal(match[1] + (match[2] or "")) * FACTORS[match[3]]
