"""A model file that is replaced as programs do it: a temporary name, then rename."""
import os

import numpy as np
import safetensors.numpy


def model(value):
    return safetensors.numpy.save({"a": np.full((64, 64), value, "float32"), "b": np.full(300, value, "int32")})


def test_a_hidden_file_on_its_way_hides_no_tensor_of_the_one_it_replaces(mnt):
    folder = mnt.key("model")
    (folder / "m.safetensors").write_bytes(model(1))
    (folder / ".m.safetensors.Xy12").write_bytes(model(2))
    assert (np.load(folder / "a" / "full.npy") == 1).all()
    assert set(safetensors.numpy.load((folder / ".all.safetensors").read_bytes())) == {"a", "b"}
    assert (folder / ".m.safetensors.Xy12").read_bytes() == model(2)
    os.rename(folder / ".m.safetensors.Xy12", folder / "m.safetensors")
    assert (np.load(folder / "a" / "full.npy") == 2).all()
    # one that is not hidden is another model file, and withholds them
    (folder / "other.safetensors").write_bytes(model(3))
    assert not (folder / "a" / "full.npy").exists()
