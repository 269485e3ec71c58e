# SPDX-License-Identifier: Apache-2.0
"""A device plug-in and a DRA driver for the kubelet: doc/howto/kubernetes.md."""
