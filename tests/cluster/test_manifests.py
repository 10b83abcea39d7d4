#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of packaging/kubernetes, without a cluster. `facts`: what they promise; `valid`:
by Kubernetes' own schemas. Usage: test_manifests.py facts|valid VERSION"""
import json
import os
import shutil
import subprocess
import sys
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(SOURCE, "build-kubernetes"))  # as setup.sh installs it

try:
    import manifests
except ImportError:
    print("skipped: needs PyYAML (python3-yaml)")
    sys.exit(77)

VERSION = sys.argv[2]


def with_pods():
    return [(where, document) for where, document in manifests.everything()
            if manifests.pod_of(document)]


def name_of(document):
    return f'{document["kind"]} {document["metadata"]["name"]}'


class Facts(unittest.TestCase):
    def test_every_pod_is_fit_for_a_restricted_namespace_and_writes_to_volumes_only(self):
        for where, document in with_pods():
            pod = manifests.pod_of(document)
            with self.subTest(where, name=name_of(document)):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod["securityContext"]["seccompProfile"]["type"],
                                 "RuntimeDefault")
                self.assertEqual(pod["automountServiceAccountToken"],
                                 pod.get("serviceAccountName") == "crt-head")
                self.assertFalse(pod["enableServiceLinks"])
            for container in manifests.containers_of(document):
                with self.subTest(where, name=name_of(document), container=container["name"]):
                    context = container["securityContext"]
                    self.assertTrue(context["readOnlyRootFilesystem"])
                    self.assertFalse(context["allowPrivilegeEscalation"])
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                    for amount in ("requests", "limits"):
                        self.assertLessEqual({"cpu", "memory"},
                                             container["resources"][amount].keys())

    def test_no_key_is_in_a_manifest_and_pods_read_it_from_a_mounted_secret(self):
        for where, document in manifests.everything():
            self.assertNotEqual(document["kind"], "Secret", where)
        for where, document in with_pods():
            volumes = {volume["name"]: volume for volume in manifests.pod_of(document)["volumes"]}
            self.assertEqual(volumes["key"]["secret"], {"secretName": "crt-key",
                                                        "defaultMode": 0o440}, where)
            for container in manifests.containers_of(document):
                self.assertFalse([variable for variable in container.get("env", [])
                                  if "secretKeyRef" in variable.get("valueFrom", {})], where)

    def test_a_node_has_the_time_to_be_drained_before_it_is_killed(self):
        for name in manifests.OVERLAYS:
            pod, = [manifests.pod_of(document) for document in manifests.overlay(name)
                    if document["kind"] == "Deployment"]
            drain = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
            deadline = int(drain[drain.index("--deadline") + 1])
            self.assertLess(deadline + 15, pod["terminationGracePeriodSeconds"])

    def test_selectors_choose_the_pods_that_they_are_for(self):
        for name in manifests.OVERLAYS:
            documents = manifests.overlay(name)
            labels = [document["spec"]["template"]["metadata"]["labels"].items()
                      for document in documents if manifests.pod_of(document)]
            for document in documents:
                spec = document.get("spec", {})
                selector = spec.get("selector", spec.get("podSelector", {}))
                wanted = selector.get("matchLabels", selector)
                self.assertTrue(not wanted or any(wanted.items() <= pod for pod in labels),
                                name_of(document))

    def test_the_autoscaler_may_change_the_deployments_of_its_node_types_and_no_others(self):
        found = {name_of(document): document for document in manifests.overlay("autoscaled")}
        rules = found["ConfigMap crt-autoscaler"]["data"]["rules.yaml"]
        deployments = [f"crt-{kind}" for kind in manifests.yaml.safe_load(rules)["node-types"]]
        scales, pods = found["Role crt-autoscaler"]["rules"]
        self.assertEqual(scales["resourceNames"], deployments)
        self.assertEqual((scales["resources"], scales["verbs"]),
                         (["deployments/scale"], ["get", "patch"]))
        self.assertEqual((pods["resources"], pods["verbs"]), (["pods"], ["list", "patch"]))
        for name in deployments:
            self.assertNotIn("replicas", found[f"Deployment {name}"]["spec"])

    def test_images_have_the_version_of_this_crt(self):
        for where, document in with_pods():
            for container in manifests.containers_of(document):
                self.assertEqual(container["image"].rsplit(":", 1)[1], VERSION, where)

    @unittest.skipUnless(shutil.which("kubectl"), "needs kubectl")
    def test_kubectl_renders_the_same(self):
        def in_order(value):
            """In which order a patch adds to a list means nothing."""
            if isinstance(value, dict):
                return {key: in_order(part) for key, part in value.items()}
            if isinstance(value, list):
                return sorted(map(in_order, value), key=lambda part: json.dumps(
                    part, sort_keys=True)) if all(isinstance(v, dict) for v in value) else value
            return value

        for name in manifests.OVERLAYS:
            done = subprocess.run(
                ["kubectl", "kustomize", os.path.join(manifests.ROOT, "overlays", name)],
                stdout=subprocess.PIPE, timeout=60, check=True)
            self.assertEqual(in_order(list(manifests.yaml.safe_load_all(done.stdout))),
                             in_order(manifests.overlay(name)), name)


class Valid(unittest.TestCase):
    def test_every_manifest_is_what_the_newest_schemas_want(self):
        version = kubernetes_validate.latest_version()
        print(f"Kubernetes {version}", flush=True)
        for where, document in manifests.everything():
            with self.subTest(where, name=name_of(document)):
                kubernetes_validate.validate(document, version, strict=True)

    def test_what_is_wrong_is_noticed(self):
        document = manifests.read("job.yaml")[0]
        document["spec"]["backofLimit"] = 1
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(),
                                         strict=True)


if __name__ == "__main__":
    if sys.argv[1] == "valid":
        try:
            import kubernetes_validate
        except ImportError:
            print("skipped: needs kubernetes-validate (setup.sh --with-kubernetes)")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2,
                  defaultTest="Valid" if sys.argv[1] == "valid" else "Facts")
