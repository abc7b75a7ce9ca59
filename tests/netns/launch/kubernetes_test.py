"""scripts/launch/kubernetes.yaml: held against the API, and its pods run as hosts.

Usage: kubernetes_test.py DDPRUN PYTHON [unittest arguments]

No cluster is asked: what the Job controller, the kubelet and the name service do with the file is written out here.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from hosts import ROOT, Site, processes, readme, require_namespaces, skip

try:
    import yaml
except ImportError:
    skip("needs Python's yaml (Debian: python3-yaml)")

import kubernetes_schema as schema
import skips

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
MANIFEST = ROOT / "scripts/launch/kubernetes.yaml"
TEXT = MANIFEST.read_text()
SERVICE, JOB = yaml.safe_load_all(TEXT)
POD = JOB["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
EXIT_CODES = dict(re.findall(r"int k(\w+) = (\d+);", (ROOT / "rendezvous/base/exit_codes.h").read_text()))


def rule_for(code):
    """The action of the first rule that matches a container's exit code, as the Job controller picks it."""
    for rule in JOB["spec"]["podFailurePolicy"]["rules"]:
        if "onExitCodes" in rule and code in rule["onExitCodes"]["values"]:
            return rule["action"]
    return "Count"


def expand(text, known):
    """$(NAME) as the kubelet expands it: what is not known stays as it is."""
    return re.sub(r"\$\(([A-Za-z_][\w.-]*)\)", lambda match: known.get(match[1], match[0]), text)


def pod(index, secret):
    """Environment and command of pod `index`: a value sees only the variables before it, arguments see all."""
    known = {}
    for entry in CONTAINER["env"]:
        is_secret = "secretKeyRef" in entry.get("valueFrom", {})
        known[entry["name"]] = secret if is_secret else expand(entry["value"], known)
    known["JOB_COMPLETION_INDEX"] = str(index)  # the Job controller appends it
    return known, [expand(word, known) for word in CONTAINER["command"] + CONTAINER["args"]]


class Manifest(unittest.TestCase):
    def test_every_field_is_one_that_the_api_has(self):
        for document in (SERVICE, JOB):
            kind = document["apiVersion"], document["kind"]
            self.assertEqual(schema.problems(document, schema.KINDS[kind], document["kind"]), [])

    def test_kubectl_reads_it_without_losing_a_field(self):
        if shutil.which("kubectl") is None:
            skips.skip("kubectl is not installed")
        # Both commands decode into the API's own types, without a server; a field that those do not have is gone after it.
        # An image must change, or nothing is printed: it is changed back.
        for document, change in ((SERVICE, ["set", "selector", "job-name=train"]), (JOB, ["set", "image", "ddprun=another:2"])):
            read = subprocess.run(["kubectl", *change[:2], "--local", "-f", "-", *change[2:], "-o", "json"], text=True,
                                  input=json.dumps(document), capture_output=True)
            self.assertEqual(read.returncode, 0, read.stderr)
            known = json.loads(read.stdout.replace('"another:2"', json.dumps(CONTAINER["image"])))
            self.expect_within(document, known, document["kind"])

    def expect_within(self, part, whole, place):
        """Types print more than was said (zeros, defaults), but never less."""
        if isinstance(part, dict):
            for key, value in part.items():
                self.assertIn(key, whole, f"kubectl's types have no {place}.{key}")
                self.expect_within(value, whole[key], f"{place}.{key}")
        elif isinstance(part, list):
            self.assertEqual(len(part), len(whole), place)
            for i, (mine, theirs) in enumerate(zip(part, whole)):
                self.expect_within(mine, theirs, f"{place}[{i}]")
        else:
            self.assertEqual(part, whole, place)

    def test_one_indexed_pod_for_each_node(self):
        spec = JOB["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        nodes = {entry["name"]: entry.get("value") for entry in CONTAINER["env"]}["PET_NNODES"]
        self.assertEqual([spec["completions"], spec["parallelism"]], [int(nodes)] * 2)
        self.assertIn("--node-rank=$(JOB_COMPLETION_INDEX)", CONTAINER["args"])

    def test_pod_0_has_a_name_that_resolves_before_it_is_ready(self):
        service = SERVICE["metadata"]["name"]
        self.assertEqual(SERVICE["spec"]["clusterIP"], "None")
        self.assertIs(SERVICE["spec"]["publishNotReadyAddresses"], True)
        self.assertEqual(POD["subdomain"], service)
        self.assertEqual(SERVICE["spec"]["selector"], {"job-name": JOB["metadata"]["name"]})  # the Job labels its pods so
        self.assertEqual(pod(1, "")[0]["PET_MASTER_ADDR"], f"{JOB['metadata']['name']}-0.{service}")

    def test_one_port_everywhere(self):
        port = int(pod(0, "")[0]["PET_MASTER_PORT"])
        self.assertEqual([SERVICE["spec"]["ports"][0]["port"], CONTAINER["ports"][0]["containerPort"]], [port, port])

    def test_exit_codes_decide_whether_pods_come_back(self):
        self.assertEqual(POD["restartPolicy"], "Never")  # podFailurePolicy allows no other
        self.assertGreater(JOB["spec"]["backoffLimit"], 0)
        for rule in JOB["spec"]["podFailurePolicy"]["rules"]:
            self.assertEqual(len({"onExitCodes", "onPodConditions"} & set(rule)), 1)
            values = rule.get("onExitCodes", {"values": [1]})["values"]
            self.assertEqual((sorted(set(values)), 0 in values), (values, False))  # the API wants them so
            self.assertIn(rule.get("onExitCodes", {}).get("containerName", "ddprun"), [CONTAINER["name"]])
        names = {name: int(code) for name, code in EXIT_CODES.items()}
        self.assertEqual({name for name, code in names.items() if rule_for(code) == "FailJob"},
                         {"Usage", "Config", "DoNotRestart", "CannotExecute", "NotFound"})
        self.assertEqual(rule_for(75), "Ignore")
        self.assertEqual([rule_for(code) for code in (1, 7, 69, 137)], ["Count"] * 4)

    def test_there_is_time_for_a_checkpoint(self):
        grace = next(word for word in CONTAINER["args"] if word.startswith("--shutdown-timeout="))
        self.assertLess(int(grace.split("=")[1].rstrip("s")), POD["terminationGracePeriodSeconds"])

    def test_the_secret_is_named_and_not_written_down(self):
        entry = next(entry for entry in CONTAINER["env"] if entry["name"] == "DDPRUN_SECRET")
        reference = entry["valueFrom"]["secretKeyRef"]
        made = f"kubectl create secret generic {reference['name']} --from-file={reference['key']}=/dev/stdin"
        self.assertIn(made, TEXT)
        self.assertIn(made, readme("openssl rand -hex 32 | kubectl"))

    def test_the_readmes_commands_name_what_is_there(self):
        self.assertEqual(readme("kubectl apply"), "kubectl apply -f scripts/launch/kubernetes.yaml")
        self.assertIn(f"--selector=job-name={JOB['metadata']['name']}", readme("kubectl logs"))

    def test_volumes_are_there(self):
        self.assertEqual([mount["name"] for mount in CONTAINER["volumeMounts"]], [volume["name"] for volume in POD["volumes"]])


class Pods(unittest.TestCase):
    """The pods as hosts, with the names that the headless service gives them."""

    def setUp(self):
        names = [f"{JOB['metadata']['name']}-{index}" for index in range(JOB["spec"]["completions"])]
        self.site = Site(names, DDPRUN, PYTHON)
        self.addCleanup(self.site.__exit__)
        self.pods = list(self.site.hosts.values())
        table = "".join(f"{host.addresses[0]} {host.name}.{SERVICE['metadata']['name']} {host.name}\n" for host in self.pods)
        for host in self.pods:
            host.knows(table)

    def start(self, index, *extra):
        environment, words = pod(index, "a secret")
        mount = CONTAINER["volumeMounts"][0]["mountPath"]
        words = words[:-1] + list(extra) + words[-1:]
        words = [re.sub(f"^{mount}/", f"{self.site.shared}/", word) for word in words]
        return self.pods[index].run(*words, **environment)

    def test_they_train_the_job_file(self):
        jobs = [self.start(index) for index in (0, 1)]
        self.assertEqual([job.wait(90) for job in jobs], [0, 0], jobs[0].text)
        self.assertIn("2 ranks of batch 32", jobs[0].text)
        self.assertNotIn("no job secret", jobs[0].text)

    def test_a_pod_that_is_lost_comes_back_under_its_index_and_training_goes_on(self):
        self.site.write_job(epochs=20)
        jobs = [self.start(index) for index in (0, 1)]
        jobs[0].expect("epoch 2/20", within=30)
        jobs[1].kill()
        again = self.start(1)
        self.assertEqual([jobs[0].wait(90), again.wait(90)], [0, 0], jobs[0].text)
        self.assertIn("resumed from", jobs[0].text)

    def test_an_evicted_pod_drains_the_job_with_75(self):
        self.site.write_job(epochs=20)
        jobs = [self.start(index) for index in (0, 1)]
        jobs[0].expect("epoch 2/20", within=30)
        launcher, = (pid for pid, line in processes(self.site.folder) if line.startswith("ddprun --node-rank=1 "))
        os.kill(launcher, signal.SIGTERM)
        self.assertEqual([job.wait(90) for job in jobs], [75, 75], jobs[0].text)
        again = [self.start(index) for index in (0, 1)]  # both are ignored by the rules, and replaced
        self.assertEqual([job.wait(90) for job in again], [0, 0], again[0].text)
        self.assertIn("resumed from", again[0].text)


if __name__ == "__main__":
    require_namespaces()
    unittest.main(verbosity=2)
