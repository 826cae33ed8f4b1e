"""A run and its folder: `model.npz` and `pipeline.json`, `certificate.json`, `history.csv`, `report.html`."""
