"""The part of the Kubernetes API (v1 and batch/v1, 1.31) that scripts/launch/kubernetes.yaml uses.

A type is a Python type, a list [of a type], a set of allowed values, {"*": type} for a map, or an object as a dict. In an object
a key with ! is required. What is no key of the object is an error, as with kubectl's --validate=strict.
"""

LABELS = {"*": str}
META = {"name!": str, "labels": LABELS, "annotations": LABELS, "namespace": str}
PORT = {"name": str, "protocol": {"TCP", "UDP"}}
SELECTOR = {"name!": str, "key!": str, "optional": bool}
ENV = {"name!": str, "value": str,
       "valueFrom": {"secretKeyRef": SELECTOR, "configMapKeyRef": SELECTOR, "fieldRef": {"fieldPath!": str, "apiVersion": str}}}
CONTAINER = {
    "name!": str, "image!": str, "command": [str], "args": [str], "env": [ENV], "workingDir": str,
    "ports": [PORT | {"containerPort!": int}],
    "resources": {"limits": {"*": (str, int)}, "requests": {"*": (str, int)}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool, "subPath": str}],
}
VOLUME = {"name!": str, "persistentVolumeClaim": {"claimName!": str, "readOnly": bool},
          "emptyDir": {"medium": {"", "Memory"}, "sizeLimit": str}}
POD = {"metadata": {"labels": LABELS, "annotations": LABELS},
       "spec!": {"subdomain": str, "hostname": str, "restartPolicy": {"Never", "OnFailure"},  # a Job knows no Always
                 "terminationGracePeriodSeconds": int, "containers!": [CONTAINER], "volumes": [VOLUME]}}
RULE = {"action!": {"FailJob", "FailIndex", "Ignore", "Count"},
        "onExitCodes": {"containerName": str, "operator!": {"In", "NotIn"}, "values!": [int]},
        "onPodConditions": [{"type!": str, "status": {"True", "False", "Unknown"}}]}
JOB = {"completionMode": {"Indexed", "NonIndexed"}, "completions": int, "parallelism": int, "backoffLimit": int,
       "activeDeadlineSeconds": int, "ttlSecondsAfterFinished": int, "podFailurePolicy": {"rules!": [RULE]}, "template!": POD}
SERVICE = {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": LABELS,
           "ports": [PORT | {"port!": int, "targetPort": (str, int)}]}

KINDS = {
    ("v1", "Service"): {"apiVersion!": str, "kind!": str, "metadata!": META, "spec!": SERVICE},
    ("batch/v1", "Job"): {"apiVersion!": str, "kind!": str, "metadata!": META, "spec!": JOB},
}


def problems(value, schema, place=""):
    """A sentence for each place where the value is not what the schema says."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{place}: expected an object, got {value!r}"]
        if "*" in schema:
            return [text for key, each in value.items() for text in problems(each, schema["*"], f"{place}.{key}")]
        known = {key.rstrip("!"): each for key, each in schema.items()}
        found = [f"{place}.{key}: unknown field" for key in value if key not in known]
        found += [f"{place}.{key[:-1]}: missing" for key in schema if key.endswith("!") and key[:-1] not in value]
        return found + [text for key in value if key in known for text in problems(value[key], known[key], f"{place}.{key}")]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{place}: expected a list, got {value!r}"]
        return [text for i, each in enumerate(value) for text in problems(each, schema[0], f"{place}[{i}]")]
    if isinstance(schema, set):
        return [] if value in schema else [f"{place}: {value!r} is none of {sorted(schema)}"]
    is_bool = isinstance(value, bool)
    return [] if isinstance(value, schema) and is_bool == (schema is bool) else [f"{place}: {value!r} has the wrong type"]
