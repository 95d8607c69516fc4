"""The chart, rendered by Helm's own code and compared with Kubernetes' schemas: what runs, and who may connect."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import sharewood
from sharewood.job.sections import Dealer, Serve
from tests.sharewood.commands.hosting import sharewood as run

helm = pytest.importorskip("helm_python")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
OLDEST = re.search(r"(?m)^kubeVersion: \">=([0-9]+\.[0-9]+)", (CHART / "Chart.yaml").read_text()).group(1)
ROLES = "dealer", "serve", "job"
PEER, DEALER, CLIENTS = ([{"ipBlock": {"cidr": f"192.0.2.{i}/32"}}] for i in (1, 2, 3))


def values(role, **more):
    """What a user sets for a role, and no more."""
    claims = {} if role == "dealer" else {"data": {"claim": "tables"}, "state": {"claim": "state"}}
    return {"role": role, "config": 'tls = "/keys"\n', "secrets": ["keys"], **claims, **more}


def render(given):
    """Return the resources by kind and name, validated against the oldest Kubernetes that the chart supports."""
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(given, name="bank", namespace="trees")
    found = [each for text in texts.values() for each in yaml.safe_load_all(text) if each]
    for each in found:
        kubernetes_validate.validate(each, OLDEST, strict=True)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod_of(resources):
    (workload,) = [each for (kind, _), each in resources.items() if kind in ("Deployment", "Job")]
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("role", ROLES)
def test_helm_finds_no_fault(role):
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(values(role))
        assert chart.version == chart.metadata["appVersion"] == sharewood.__version__
    found = helm.lint(CHART, values=values(role))
    assert not found["errors"] and all("icon" in each["error"] for each in found["messages"])


@pytest.mark.parametrize("role", ROLES)
def test_pods_are_as_restricted_as_kubernetes_knows(role):
    pod = pod_of(render(values(role)))
    assert pod["automountServiceAccountToken"] is False and pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"] + pod["initContainers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] and context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
    # The user of the image, whose files of keys only he can read.
    image = (ROOT / "deploy" / "Containerfile").read_text()
    assert f"--uid {pod['securityContext']['runAsUser']} " in image
    (state,) = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == "state"]
    assert f"XDG_STATE_HOME={state} " in image and f"XDG_CACHE_HOME={state} " in image


@pytest.mark.parametrize("role", ROLES)
def test_the_arguments_are_those_of_sharewood(role, tmp_path):
    container = pod_of(render(values(role, command=["train", "--resume"], options=["--log-format", "json"])))[
        "containers"
    ][0]
    place = str(tmp_path / "config.toml")
    status, _, said = run(
        *[place if each == "/etc/sharewood/config.toml" else each for each in container["args"]], cwd=tmp_path
    )
    assert status == 2 and "cannot be read" in said, said


def test_secrets_are_only_named():
    resources = render(values("serve", token={"secret": "token", "key": "t"}))
    assert not any(kind == "Secret" for kind, _ in resources)
    pod = pod_of(resources)
    (secrets,) = [each["projected"] for each in pod["volumes"] if each["name"] == "secrets"]
    assert secrets["sources"] == [{"secret": {"name": "keys"}}] and secrets["defaultMode"] == 0o440
    assert pod["containers"][0]["env"] == [
        {"name": "SHAREWOOD_TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}
    ]
    assert {each["name"] for each in pod["containers"][0]["volumeMounts"]} == {
        "config",
        "keys",
        "state",
        "temporary",
        "data",
    }  # not the Secret itself


def test_what_the_first_container_does_makes_keys_private(tmp_path):
    """Files of a Secret are links to files that a group can read."""
    mounted, keys = tmp_path / "secrets", tmp_path / "keys"
    (mounted / "..data").mkdir(parents=True)
    keys.mkdir()
    for name in ("party_a.key", "party_a.crt", "authority.crt"):
        (mounted / "..data" / name).write_text(name)
        (mounted / "..data" / name).chmod(0o440)
        (mounted / name).symlink_to(f"..data/{name}")
    command = pod_of(render(values("serve")))["initContainers"][0]["command"]
    place = command[-1].replace("/secrets", str(mounted)).replace("/keys", str(keys))
    subprocess.run([*command[:-1], place], check=True)
    assert {each.name: (each.read_text(), each.stat().st_mode & 0o777) for each in keys.iterdir()} == {
        name: (name, 0o600) for name in ("party_a.key", "party_a.crt", "authority.crt")
    }


def test_a_service_has_its_probes():
    for https in (False, True):
        container = pod_of(render(values("serve", https=https)))["containers"][0]
        probes = {name: each["httpGet"] for name, each in container.items() if name.endswith("Probe")}
        paths = {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
        assert {name: probe["path"] for name, probe in probes.items()} == paths
        assert {probe["scheme"] for probe in probes.values()} == {"HTTPS" if https else "HTTP"}
    for role in ("dealer", "job"):
        assert not any(name.endswith("Probe") for name in pod_of(render(values(role)))["containers"][0])


def rules(resources):
    """{(ingress or egress, port): those who may connect} of the one policy, which governs the pod."""
    (policy,) = [each["spec"] for (kind, _), each in resources.items() if kind == "NetworkPolicy"]
    (labels,) = [
        each["spec"]["template"]["metadata"]["labels"]
        for (kind, _), each in resources.items()
        if kind in ("Deployment", "Job")
    ]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    found = {}
    for direction, key in (("ingress", "from"), ("egress", "to")):
        for rule in policy[direction] or []:
            assert rule[key], "an empty list is everybody"
            for port in rule["ports"]:
                found[direction, port["port"]] = rule[key]
    return found


@pytest.mark.parametrize(
    ("role", "listens", "expected"),
    [
        ("dealer", True, {("ingress", 50010): PEER}),
        ("serve", True, {("ingress", 50011): PEER, ("ingress", 8080): CLIENTS, ("egress", 50010): DEALER}),
        ("serve", False, {("ingress", 8080): CLIENTS, ("egress", 50011): PEER, ("egress", 50010): DEALER}),
        ("job", True, {("ingress", 50011): PEER, ("egress", 50010): DEALER}),
        ("job", False, {("egress", 50011): PEER, ("egress", 50010): DEALER}),
    ],
)
def test_only_the_peer_the_dealer_and_clients_connect(role, listens, expected):
    network = {"peer": PEER, "dealer": DEALER, "clients": CLIENTS, "dns": False}
    resources = render(values(role, listens=listens, network=network))
    assert rules(resources) == expected
    # Ports and services are those of the policy.
    ports = {each["containerPort"] for each in pod_of(resources)["containers"][0].get("ports", [])}
    assert ports == {port for direction, port in expected if direction == "ingress"}
    services = {
        port["port"] for (kind, _), each in resources.items() if kind == "Service" for port in each["spec"]["ports"]
    }
    assert services == ports
    # Nobody is let in, or called, who is not named.
    assert rules(render(values(role, listens=listens, network={"dns": False}))) == {}
    names = rules(render(values(role, listens=listens)))
    assert names.keys() == (set() if role == "dealer" else {("egress", 53)})


def test_ports_are_those_of_the_examples_and_defaults():
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    assert Serve().address.endswith(f":{given['ports']['http']}")
    example = tomllib.loads((ROOT / "examples" / "two_hosts" / "party_a.toml").read_text())
    assert Dealer(**example["dealer"]).address.endswith(f":{given['ports']['dealer']}")
    assert example["parties"]["party_a"]["address"].endswith(f":{given['ports']['peer']}")
    exposed = (ROOT / "deploy" / "Containerfile").read_text()
    assert "EXPOSE " + " ".join(str(given["ports"][each]) for each in ("dealer", "peer", "http")) in exposed


def test_a_job_ends_with_a_refusal_and_may_go_on_after_a_failure():
    resources = render(values("job", command=["train", "--resume"], restarts=3))
    job = resources["Job", "bank"]["spec"]
    assert job["backoffLimit"] == 3 and job["template"]["spec"]["restartPolicy"] == "Never"
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [2]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"role": "party"}, "role"),
        ({"secrets": []}, "secrets"),
        ({"config": ""}, "config"),
        ({"config": "-----BEGIN PRIVATE KEY-----"}, "config"),
        ({"password": "x"}, "password"),
        ({"state": {"claim": ""}}, "claim"),
        ({"data": {"claim": ""}}, "claim"),
        ({"token": {"value": "s3cret"}}, "value"),
        ({"ports": {"http": 80}}, "http"),
        ({"network": {"clients": ["10.0.0.0/8"]}}, "clients"),
        ({"network": {"clients": [{}]}}, "clients"),
        ({"resources": {"limits": {"memory": "lots"}}}, "memory"),
    ],
)
def test_values_that_do_not_fit_are_refused(given, named):
    with helm.Chart.load(CHART) as chart, pytest.raises(helm.HelmError, match=named):
        chart.render(values("serve") | given, name="bank", namespace="trees")


def test_every_value_has_a_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]

    def check(given, properties, path):
        for name, value in given.items():
            assert name in properties, f"{path}{name}"
            if isinstance(value, dict) and "properties" in properties[name]:
                check(value, properties[name]["properties"], f"{path}{name}.")

    check(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")
