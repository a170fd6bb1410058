#!/usr/bin/env python3
"""Writes files of the form and size of VQA v2 (443,757 and 214,354 questions, ten answers each), to measure `asr prepare`.

usage: tools/make_vqa_files.py FOLDER [PART]      PART: share of the rows, 1 by default
"""
import json
import os
import random
import sys

if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
    sys.exit(__doc__)

TYPES = """how many;is the;what;what color is the;what is the;is this;is this a;what is;are the;what kind of;is there a;what type of;is it;
what are the;where is the;is there;does the;what color are the;are these;are there;which;is;what is the man;is the man;are;how;does this;
what is on the;what does the;how many people are;what is in the;what is this;do;what are;are they;what time;what sport is;are there any;is he;
what color is;why;where are the;what color;who is;what animal is;is the woman;is this an;do you;how many people are in;what room is;has;
is this person;what is the woman;can you;why is the;is the person;what is the color of the;what is the person;could;was;is that a;
what number is;what is the name;what brand;none of the above""".replace("\n", "").split(";")
WORDS = "yes no red blue green white black two three one dog cat tree frisbee table grass pizza left right tennis baseball".split()


def write(folder, split, images, questions, rng):
    ids = rng.sample(range(1, 600000), images)
    rows = []
    for i in range(questions):
        image = ids[i % images]
        rows.append((image * 1000 + i // images, image, rng.choice(TYPES)))
    rng.shuffle(rows)
    head = '{"info": {"description": "generated"}, "license": {}, '
    with open(os.path.join(folder, f"v2_OpenEnded_mscoco_{split}2014_questions.json"), "w") as out:
        out.write(head + '"questions": [')
        for n, (qid, image, kind) in enumerate(rows):
            text = f"{kind} {rng.choice(WORDS)} thing near the {rng.choice(WORDS)} {n % 97}?"
            out.write(("" if n == 0 else ", ") + json.dumps({"image_id": image, "question": text, "question_id": qid}))
        out.write("]}")
    rng.shuffle(rows)
    with open(os.path.join(folder, f"v2_mscoco_{split}2014_annotations.json"), "w") as out:
        out.write(head + '"annotations": [')
        for n, (qid, image, kind) in enumerate(rows):
            said = rng.choice(WORDS)
            answers = [{"answer": said if k < 7 else rng.choice(WORDS), "answer_confidence": "yes", "answer_id": k + 1} for k in range(10)]
            row = {"question_type": kind, "multiple_choice_answer": said, "answers": answers, "image_id": image, "answer_type": "other",
                   "question_id": qid}
            out.write(("" if n == 0 else ", ") + json.dumps(row))
        out.write("]}")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    part = float(sys.argv[2]) if len(sys.argv) == 3 else 1.0
    os.makedirs(sys.argv[1], exist_ok=True)
    rng = random.Random(0)
    write(sys.argv[1], "train", max(1, int(82783 * part)), int(443757 * part), rng)
    write(sys.argv[1], "val", max(1, int(40504 * part)), int(214354 * part), rng)


main()
