"""What of a vocabulary's design its states hang on, so that another readout captures nothing again."""

import json
from pathlib import Path

from strataprobe.files import sha256_file, sha256_json


def states_checksum(design: str | Path) -> str:
    """One SHA-256 over the sides, the words with theirs, and the anchors of each notation, all in order.

    Scopes, directions, controls and meant pieces are left out: they say what is asked of the states. A file
    that is no design counts as a whole; the job that reads it says what is wrong with it.

    Args:
        design: a JSON file, see `datasets.vocabulary_design`.
    """
    try:
        read = json.loads(Path(design).read_bytes())
        words = [
            [name, facts["property"]] for key in ("classes", "invented") for name, facts in read[key].items()
        ]
        return sha256_json([read["sides"], words, list(map(list, read["anchors"].items()))])
    except (ValueError, LookupError, TypeError, AttributeError):
        return sha256_file(design)
    except OSError:
        return "unreadable"
