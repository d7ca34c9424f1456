"""The Terraform twin of the CloudFormation template: valid, and the same in what it creates and allows."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cfnlint.decode import cfn_yaml

from tests.deploy.files import DEPLOY

TEMPLATE = DEPLOY / "aws/template.yaml"
MODULE = DEPLOY / "aws/terraform"
TWIN = "\n".join(path.read_text() for path in sorted(MODULE.glob("*.tf")))
PLUGINS = "TERRAFORM_PLUGIN_DIR"
# CloudFormation gets packages from a bucket, Terraform from files.
CODE = {"code_bucket", "mobile_code_key", "web_code_key"}, {"mobile_package", "web_package"}
NOTHING = {"", "{}", None}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def variables() -> dict[str, str | None]:
    """Return the default of each variable as it is written; None for one that must be set."""
    blocks = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', TWIN, re.MULTILINE | re.DOTALL)
    defaults = {name: re.search(r"^  default +=(.*)$", block, re.MULTILINE) for name, block in blocks}
    return {name: found[1].strip(' "') if found else None for name, found in defaults.items()}


def test_every_parameter_is_a_variable_with_the_same_default() -> None:
    parameters: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(TEMPLATE)["Parameters"]))
    theirs = {snake(name): each.get("Default") for name, each in parameters.items()}
    ours = variables()

    assert theirs.keys() - CODE[0] == ours.keys() - CODE[1]
    for name in theirs.keys() - CODE[0]:
        same = {"null": "", "[]": ""}.get(str(ours[name]), ours[name])
        assert str(same) == str(theirs[name]) or {same, theirs[name]} <= NOTHING, name


@pytest.mark.parametrize(
    "form",
    [
        r"\b(?:sns|sqs|ssm|logs|kms|ec2|sts):[A-Z][a-z]\w+",
        r"\bDELIVERY_[A-Z_]+",
        r"tocsin\.aws\.\w+\.handler",
        r"\b(?:Errors|Throttles|Approximate\w+)\b",
        r"\b(?:messageGroup|perMessageGroupId|MessageGroup|MessageBody|ReportBatchItemFailures)\b",
        r"\b(?:python3\.\d+|x86_64|arm64|alias/aws/sns)\b",
    ],
)
def test_rights_variables_handlers_and_alarms_are_those_of_the_template(form: str) -> None:
    found = set(re.findall(form, TWIN))

    assert found
    assert found == set(re.findall(form, TEMPLATE.read_text()))


def test_terraform_finds_it_valid_and_well_formatted(tmp_path: Path) -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("LEFT OUT: no terraform; see developer.hashicorp.com/terraform/install")
    shutil.copytree(MODULE, tmp_path / "module")
    environment = {name: value for name, value in os.environ.items() if name != "TF_CLI_CONFIG_FILE"}
    plugins = [f"-plugin-dir={environment[PLUGINS]}"] if PLUGINS in environment else []

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [terraform, f"-chdir={tmp_path / 'module'}", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )

    assert run("fmt", "-check").stdout == ""
    if run("init", "-backend=false", "-input=false", *plugins).returncode:
        pytest.skip(f"LEFT OUT: no plugin of Terraform for AWS; set {PLUGINS} to a folder with it")
    validated = json.loads(run("validate", "-json").stdout)
    assert (validated["valid"], validated["diagnostics"]) == (True, [])
