# SPDX-License-Identifier: Apache-2.0
"""The probes of doc/howto/trace.md are in the files that were built: probes.py FILE NAME/ARGUMENTS..."""
import re
import subprocess
import sys

notes = subprocess.run(["readelf", "-nW", sys.argv[1]], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
found = {}
for provider, name, arguments in re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: .*\s+Arguments:(.*)", notes):
    if provider == "vcuda":
        found.setdefault(name, set()).add(len(arguments.split()))
wanted = {name: {int(count)} for name, count in (word.split("/") for word in sys.argv[2:])}
if found != wanted:
    sys.exit(f"{sys.argv[1]} has {found}, not {wanted}")
