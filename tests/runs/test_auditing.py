"""What is attacked is what was certified. The attacks need runs of every objective: see tests/cli."""

import dataclasses

import pytest
from testkit.run_folders import finished_run

import gossamer as gs
from gossamer.runs import auditing
from gossamer.runs.folder import load_certificate


def certificate(**changes):
    """Return the certificate of a run, changed."""
    return dataclasses.replace(load_certificate(finished_run() / "run"), **changes)


@pytest.mark.deep
def test_samples_keep_their_rates_on_fewer_records():
    method = gs.methods.Spider(batch_size=100, refresh_batch_size=None)
    configuration = {each.name: getattr(method, each.name) for each in dataclasses.fields(method)}
    claimed = certificate(n=1000, method="Spider", configuration=configuration)
    assert auditing._method(claimed, 1000) == method
    assert auditing._method(claimed, 200) == dataclasses.replace(method, batch_size=20)
    assert auditing._method(claimed, 3) == dataclasses.replace(method, batch_size=1)
