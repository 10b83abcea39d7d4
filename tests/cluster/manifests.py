# SPDX-License-Identifier: Apache-2.0
"""The manifests of packaging/kubernetes as kustomize renders them: what their overlays use of it
(resources, namespace, images, replicas, patches). test_manifests.py compares with kubectl where
that is there."""
import os

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../packaging/kubernetes"))
OVERLAYS = ("plain", "gpu", "autoscaled")
# By which items of a list are the same one; other lists are replaced.
KEYS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
        "volumeMounts": "mountPath"}
CLUSTER_WIDE = ("Namespace",)
JOBS = ("job.yaml", "program.yaml")  # beside the overlays


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def merge(old, new, name=""):
    """A strategic merge; null takes a key away."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: merge(old[key], new[key], key) if key in old and key in new else
                new.get(key, old.get(key)) for key in {**old, **new}
                if new.get(key, old.get(key)) is not None}
    if isinstance(old, list) and isinstance(new, list) and name in KEYS:
        by = {item[KEYS[name]]: item for item in old}
        for item in new:
            at = item[KEYS[name]]
            by[at] = merge(by[at], item) if at in by else item
        return list(by.values())
    return new


def pod_of(document):
    """The spec of the pods that it makes; None: it makes none."""
    if document["kind"] == "Pod":
        return document["spec"]
    return document.get("spec", {}).get("template", {}).get("spec")


def containers_of(document):
    pod = pod_of(document) or {}
    return pod.get("initContainers", []) + pod.get("containers", [])


def resources(folder, rules):
    found = []
    for name in rules["resources"]:
        path = os.path.normpath(os.path.join(folder, name))
        found += render(path) if os.path.isdir(os.path.join(ROOT, path)) else read(path)
    return found


def render(folder):
    """The documents of a folder with a kustomization.yaml."""
    rules, = read(folder, "kustomization.yaml")
    found = resources(folder, rules)
    for patch in rules.get("patches", []):
        new, = read(folder, patch["path"])
        found = [merge(old, new) if (old["kind"], old["metadata"]["name"]) ==
                 (new["kind"], new["metadata"]["name"]) else old for old in found]
    for document in found:
        for image in rules.get("images", []):
            for container in containers_of(document):
                if container["image"] == image["name"]:
                    container["image"] = f'{image["newName"]}:{image["newTag"]}'
        for replicas in rules.get("replicas", []):
            if document["metadata"]["name"] == replicas["name"] and "replicas" in document["spec"]:
                document["spec"]["replicas"] = replicas["count"]
        if "namespace" in rules and document["kind"] not in CLUSTER_WIDE:
            document["metadata"]["namespace"] = rules["namespace"]
    return found


def overlay(name):
    return render(os.path.join("overlays", name))


def everything():
    """(what, document) of all that a user applies."""
    found = [(f"overlays/{name}", document) for name in OVERLAYS for document in overlay(name)]
    return found + [(name, document) for name in JOBS for document in read(name)]
