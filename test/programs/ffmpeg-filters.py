#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FFmpeg's CUDA filters, compared with its filters for processors.

usage: ffmpeg-filters.py [FILTER...]                                          natively
       vcuda run --backend cpu -- python3 ffmpeg-filters.py [FILTER...]       through virtio-cuda

Needs the program ffmpeg. Each filter has frames of a generated video. The line of a filter has the mean difference of
the bytes and the largest one. The exit status is 1 if a mean difference is larger than the filter's bound.
"""
import subprocess
import sys

import numpy as np

VIDEO = "testsrc2=size=320x240:rate=10:duration=2,format=yuv420p"
SMALL = "testsrc=size=64x48:rate=10:duration=2,format=yuv420p"
UP, DOWN = "format=yuv420p,hwupload", "hwdownload,format=yuv420p"

# filter: graph for CUDA, graph for processors, bound of the mean difference
FILTERS = {
    "hwupload": (f"{VIDEO},{UP},{DOWN}", VIDEO, 0),
    "hwupload_cuda": (f"{VIDEO},hwupload_cuda,{DOWN}", VIDEO, 0),
    "scale_cuda-nearest": (f"{VIDEO},{UP},scale_cuda=160:120:interp_algo=nearest,{DOWN}", f"{VIDEO},scale=160:120:flags=neighbor", 8),
    "scale_cuda-bilinear": (f"{VIDEO},{UP},scale_cuda=160:120:interp_algo=bilinear,{DOWN}", f"{VIDEO},scale=160:120:flags=bilinear", 4),
    "scale_cuda-bicubic": (f"{VIDEO},{UP},scale_cuda=640:480:interp_algo=bicubic,{DOWN}", f"{VIDEO},scale=640:480:flags=bicubic", 3),
    "scale_cuda-lanczos": (f"{VIDEO},{UP},scale_cuda=640:480:interp_algo=lanczos,{DOWN}", f"{VIDEO},scale=640:480:flags=lanczos", 3),
    "scale_cuda-format": (f"{VIDEO},{UP},scale_cuda=format=nv12,hwdownload,format=nv12,format=yuv420p", VIDEO, 0.5),
    "overlay_cuda": (f"{VIDEO},{UP}[a];{SMALL},{UP}[b];[a][b]overlay_cuda=x=20:y=30,{DOWN}",
                     f"{VIDEO}[a];{SMALL}[b];[a][b]overlay=x=20:y=30", 0.1),
    "yadif_cuda": (f"{VIDEO},{UP},yadif_cuda=mode=send_field,{DOWN}", f"{VIDEO},yadif=mode=send_field", 0.5),
    "bwdif_cuda": (f"{VIDEO},{UP},bwdif_cuda=mode=send_frame,{DOWN}", f"{VIDEO},bwdif=mode=send_frame", 0.5),
    "thumbnail_cuda": (f"{VIDEO},{UP},thumbnail_cuda=10,{DOWN}", f"{VIDEO},thumbnail=10", 0),
    "bilateral_cuda": (f"{VIDEO},{UP},bilateral_cuda=window_size=5:sigmaS=3:sigmaR=10,{DOWN}", f"{VIDEO},bilateral=sigmaS=3:sigmaR=0.04", 4),
    "colorspace_cuda": (f"{VIDEO},{UP},colorspace_cuda=range=tv,{DOWN}", VIDEO, 40),
    "chromakey_cuda": (f"{VIDEO},{UP},chromakey_cuda=color=green:similarity=0.2,hwdownload,format=yuva420p,format=yuv420p", VIDEO, 4),
}
# chromakey_cuda reads between the pixels, so that its picture is blurred


def frames(graph):
    r = subprocess.run(["ffmpeg", "-v", "warning", "-nostdin", "-init_hw_device", "cuda=gpu", "-filter_hw_device", "gpu", "-filter_complex",
                        graph, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"]
                       if "hwupload" in graph else
                       ["ffmpeg", "-v", "warning", "-nostdin", "-filter_complex", graph, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"],
                       capture_output=True, check=False)
    return np.frombuffer(r.stdout, np.uint8).astype(int), r.returncode, r.stderr.decode(errors="replace").strip()


def main():
    known = subprocess.run(["ffmpeg", "-hide_banner", "-filters"], capture_output=True, text=True, check=True).stdout.split()
    failed = False
    for name, (graph, expected, bound) in FILTERS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        if name.split("-")[0] not in known:
            print(f"{name}: this ffmpeg does not have it")
            continue
        got, code, errors = frames(graph)
        want = frames(expected)[0]
        right = code == 0 and len(got) == len(want) and len(got) > 0
        difference = np.abs(got - want) if right else np.array([999])
        right &= difference.mean() <= bound
        failed |= not right
        print(f"{name}: {'right' if right else 'WRONG'}, status {code}, {len(got)} bytes of {len(want)}, mean {difference.mean():.3f}, "
              f"largest {difference.max()}", flush=True)
        if errors:
            print(f"  {errors[-600:]}", flush=True)
    return 1 if failed else 0


sys.exit(main())
