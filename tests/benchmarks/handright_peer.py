"""Runs inside handright's own environment: one JSON line in (a job), one JSON line out (milliseconds and PNG size)."""

import io
import json
import sys
import time

from handright import Template, handwrite
from PIL import Image, ImageFont


def font_of_cap_height(path: str, cap_height: float) -> ImageFont.FreeTypeFont:
    """Return the font at the size whose H is `cap_height` pixels tall."""
    _, top, _, bottom = ImageFont.truetype(path, 1000).getbbox("H")
    return ImageFont.truetype(path, round(1000 * cap_height / (bottom - top)))


def run(job: dict) -> dict:
    """Write one page and encode it as PNG."""
    font = font_of_cap_height(job["font"], job["size"])
    background = Image.new("RGB", (job["width"], job["height"]), (255, 255, 255))
    template = Template(background=background, font=font, fill=(20, 30, 90), line_spacing=round(1.5 * font.size))
    began = time.perf_counter()
    pages = list(handwrite(job["text"], template))
    data = io.BytesIO()
    pages[0].save(data, "PNG", compress_type=3)
    return {"ms": 1000 * (time.perf_counter() - began), "bytes": data.tell(), "pages": len(pages)}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
