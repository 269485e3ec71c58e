# SPDX-License-Identifier: Apache-2.0
"""The API server's REST, as far as the DRA driver needs it."""

import http.client
import json
import os
import pathlib
import ssl
import urllib.parse

from .daemon import Failure

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
LIMIT_S = 30
MAX_ANSWER = 16 << 20


class ApiError(Failure):
    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


class Api:
    """`url` None: the server and the account that Kubernetes gives to a pod. Any thread may call."""

    def __init__(self, url=None, token=None, ca=None):
        self.token = pathlib.Path(token or ACCOUNT / "token")
        if url is None:
            if not os.environ.get("KUBERNETES_SERVICE_HOST"):
                raise Failure("this is no pod of Kubernetes: name the API server with --api")
            host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
            url, ca = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", ca or ACCOUNT / "ca.crt"
        self.url = urllib.parse.urlsplit(url)
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise Failure(f"--api: {url!r} is no address of an API server")
        self.context = ssl.create_default_context(cafile=ca) if self.url.scheme == "https" else None

    def call(self, method, path, body=None):
        """The answer as an object. `path` is quoted already. Raises ApiError."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token.exists():
            headers["Authorization"] = f"Bearer {self.token.read_text().strip()}"  # Kubernetes writes another one each hour
        if self.context:
            connection = http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=LIMIT_S, context=self.context)
        else:
            connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=LIMIT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read(MAX_ANSWER)
            value = json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(f"the API server does not answer {method} {path}: {error}", 0) from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise ApiError(f"the API server answers {method} {path} with {answer.status}: {value.get('message', '')}", answer.status)
        return value


def quote(name):
    return urllib.parse.quote(name, safe="")
