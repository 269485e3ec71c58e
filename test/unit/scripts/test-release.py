#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/release.sh names each missing requirement, and makes the tag if none is: test-release.py

A scratch repository has the scripts and the files that they read, such that a release is possible. Each case of MISSING
changes one thing. Skipped (77) without git.
"""
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[3]
COPIED = ["meson.build", "scripts/release.sh", "scripts/check-version.py", "scripts/check-long.sh", "doc/howto/kubernetes.md",
          "doc/tutorial/first-container.md", "integrations/kubernetes/Containerfile", "integrations/kubernetes/deploy/base/kustomization.yaml"]
NAMES = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
         "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
TODAY = datetime.datetime.now(datetime.timezone.utc).date()
VERSION = "7.8.9"
PARTS = re.search(r'^PARTS="(.*)"$', (TREE / "scripts/check-long.sh").read_text(encoding="utf-8"), re.M).group(1).split()


def ago(days):
    return (TODAY - datetime.timedelta(days=days)).isoformat()


class Repository:
    """A scratch repository in which a release is possible."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        for name in COPIED:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / name, self.root / name)
        self.edit("meson.build", r"(?<=  version: ')[^']+", VERSION)
        subprocess.run([self.root / "scripts/check-version.py", "--update"], check=True)
        self.write("CHANGELOG.md", f"# Changes\n\n## {VERSION} ({ago(0)})\n\n* News.\n\n## 7.8.8\n" + "\n* Old news." * 200)
        self.write("test/long-results.txt", "# A comment.\n" + "".join(f"{part} {ago(3)} abc1234 passed 1:00\n" for part in PARTS))
        self.write("doc/reference/coverage.md", f"## Samples\n\n{ago(0)}\n\n### With a GPU\n\n* **H100** ({ago(90)}, {ago(3)}): 116.\n\n## More\n\n{ago(0)}\n")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def edit(self, name, pattern, text):
        before = (self.root / name).read_text(encoding="utf-8")
        after = re.sub(pattern, text, before, flags=re.M)
        assert after != before, f"{name} has no {pattern}"
        self.write(name, after)

    def git(self, *arguments):
        r = subprocess.run(["git", "-C", self.root, *arguments], env=os.environ | NAMES, capture_output=True, text=True, check=True)
        return r.stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def release(self, *options):
        r = subprocess.run([self.root / "scripts/release.sh", *options], env=os.environ | NAMES, capture_output=True, text=True, check=False)
        return r.returncode, r.stdout + r.stderr


def commits(name, pattern, text):
    def change(repository):
        repository.edit(name, pattern, text)
        repository.commit()
    return change


def uncommitted(repository):
    repository.write("new.c", "")


def other_branch(repository):
    repository.git("switch", "-q", "-c", "other")


def detached(repository):
    repository.git("switch", "-q", "--detach")


def tagged(repository):
    repository.git("tag", f"v{VERSION}")


# The change, the items that are missing then, words of the first.
RESULTS, COVERAGE = "test/long-results.txt", "doc/reference/coverage.md"
MISSING = [
    (uncommitted, ["tree"], "commit or remove"),
    (other_branch, ["branch"], "not on other"),
    (detached, ["branch"], "a detached commit"),
    (tagged, ["tag"], "v7.8.9 is there"),
    (commits("meson.build", r"7\.8\.9", "7.8"), ["version", "copies", "changelog"], "is not X.Y.Z"),
    (commits("integrations/kubernetes/Containerfile", r"7\.8\.9", "7.8.8"), ["copies"], "integrations/kubernetes/Containerfile:"),
    (commits("CHANGELOG.md", r" \(20.*\)$", " (not released yet)"), ["changelog"], "(not released yet)"),
    (commits("CHANGELOG.md", r"^## 7\.8\.9", "## 7.9.0"), ["changelog"], "not \"## 7.8.9 ("),
    (commits("CHANGELOG.md", r"^\* News\.$", "\n".join(["* News."] * 150)), ["changelog-length"], "shorten"),
    (commits(RESULTS, rf"^kasan {ago(3)}", f"kasan {ago(31)}"), ["kasan"], "31 days ago, more than 30: make check-long PARTS=kasan"),
    (commits(RESULTS, rf"^packages-trixie {ago(3)}", f"packages-trixie {ago(100)}"), ["packages-trixie"], "100 days ago"),
    (commits(RESULTS, r"^bare-trixie-user .*\n", ""), ["bare-trixie-user"], "there is no result: make check-long"),
    (commits(RESULTS, r"^fuzz (.*) passed", r"fuzz \1 failed"), ["fuzz"], "failed on"),
    (commits(COVERAGE, rf", {ago(3)}", ""), ["samples-gpu"], "90 days ago"),
    (commits(COVERAGE, r"^### With a GPU", "### Elsewhere"), ["samples-gpu"], "there is no result"),
]


def check_missing(change, items, words):
    with tempfile.TemporaryDirectory() as root:
        repository = Repository(root)
        tags = repository.git("tag")
        change(repository)
        status, out = repository.release() if change is not tagged else repository.release("--check")
        lines = [line for line in out.splitlines() if line.startswith("missing ")]
        assert status == 1 and [line.split()[1] for line in lines] == [f"{item}:" for item in items], out
        assert words in lines[0] and f"{len(items)} missing: version " in out, out
        assert repository.git("tag") == tags or change is tagged, "a tag was made"


def check_complete():
    with tempfile.TemporaryDirectory() as root:
        repository = Repository(root)
        status, out = repository.release("--check")
        assert status == 0 and out.count("\nok ") == 7 + len(PARTS) and "missing" not in out and not repository.git("tag"), out
        assert repository.release("--days", "2")[1].count("missing ") == len(PARTS) + 1, "results of 3 days ago"
        assert repository.release("--days", "x")[0] == 2 and repository.release("--tag")[0] == 2
        status, out = repository.release()
        assert status == 0 and out.endswith("packages\n"), out
        assert repository.git("cat-file", "-t", f"v{VERSION}") == "tag", "the tag is not annotated"
        assert repository.git("rev-parse", f"v{VERSION}^{{}}") == repository.git("rev-parse", "HEAD")


def main():
    if not shutil.which("git"):
        print("git is missing")
        sys.exit(77)
    check_complete()
    for change, items, words in MISSING:
        check_missing(change, items, words)
    print(f"{len(MISSING)} kinds of missing requirements")


main()
