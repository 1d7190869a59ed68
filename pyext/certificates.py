"""Certificates as JSON: why each reduction that moved may stand where it is now. docs/certificate.md."""

import json
from collections.abc import Iterable
from importlib import metadata

from paropt.passes.support.remarks import Remark

SCHEMA = "paropt.certificate/1"


def certificate_json(remarks: Iterable[Remark], passes: str = "") -> str:
    """The certificates that `remarks` carry, in their order; `passes` is the pipeline that made them.

    The same remarks give the same bytes.
    """
    moved = [
        {"pass": remark.pass_name, **remark.certificate.as_json()}
        for remark in remarks
        if remark.certificate is not None
    ]
    versions = {name: metadata.version(name) for name in ("paropt", "jaxlib")}
    return json.dumps({"schema": SCHEMA, "versions": versions, "passes": passes, "moved": moved}, indent=1) + "\n"
