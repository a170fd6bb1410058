#!/usr/bin/env python3
"""Turns easy-VQA, ShapeWorld and VQA-RAD, as their authors ship them, into folders for the stream `manifest`.

usage: tools/other_data.py easy-vqa FOLDER OUT      FOLDER holds train/questions.json and train/images
       tools/other_data.py easy-vqa-words FOLDER OUT  the same, in six stages whose answers the built-in bases can say
       tools/other_data.py shapeworld FOLDER OUT    FOLDER holds TYPE.jsonl and TYPE/world-N.png
       tools/other_data.py shapeworld-words FOLDER OUT  the same, in four stages whose answers the bases can say
       tools/other_data.py vqa-rad FOLDER OUT       FOLDER holds questions.json and images

OUT gets stream.json and one JSON-lines file a stage; images stay where they are. `asr` splits by image.
"""
import json
import os
import sys


def save(out, images, stages, metric, answer_tokens):
    os.makedirs(out, exist_ok=True)
    tasks = []
    for name, rows in stages:
        with open(os.path.join(out, name + ".jsonl"), "w") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        tasks.append({"name": name, "files": {"train": name + ".jsonl"}})
    index = {"stream": "manifest", "metric": metric, "answer_tokens": answer_tokens, "images": os.path.abspath(images), "tasks": tasks}
    with open(os.path.join(out, "stream.json"), "w") as file:
        json.dump(index, file, indent=1)
    for name, rows in stages:
        print(f"{name}: {len(rows)} rows")


def easy_vqa(folder, out):
    """Three stages by kind of answer: shape, color, yes/no."""
    colors = set("red green blue black gray teal brown yellow".split())
    stages = {"shape": [], "color": [], "yes-no": []}
    for n, (question, answer, image) in enumerate(json.load(open(os.path.join(folder, "train/questions.json")))):
        kind = "yes-no" if answer in ("yes", "no") else "color" if answer in colors else "shape"
        stages[kind].append({"id": n, "image": f"{image}.png", "question": question, "answer": answer})
    save(out, os.path.join(folder, "train/images"), list(stages.items()), "exact", 16)


def easy_vqa_words(folder, out):
    """Six stages: color, shape, then yes or no about each, affirmed and denied. The answers are words that the built-in
    bases know: a rectangle is a square, and questions for black, gray and teal are left out. What is affirmed in one
    stage and denied in another is nearly the same question with the other answer."""
    unknown = {"black", "gray", "teal"}
    names = ["color", "shape", "color-is", "shape-is", "color-is-not", "shape-is-not"]
    stages = {name: [] for name in names}
    shapes = {"circle", "rectangle", "triangle"}
    for n, (question, answer, image) in enumerate(json.load(open(os.path.join(folder, "train/questions.json")))):
        words = set(question.rstrip("?").split())
        if answer in unknown or words & unknown:
            continue
        kind = "shape" if answer in shapes else "color"
        if answer in ("yes", "no"):
            kind = "shape-is" if words & shapes else "color-is"
            kind += "-not" if words & {"not", "no"} else ""
        answer = answer.replace("rectangle", "square")
        stages[kind].append({"id": n, "image": f"{image}.png", "question": question.replace("rectangle", "square"), "answer": answer})
    save(out, os.path.join(folder, "train/images"), list(stages.items()), "exact", 4)


def shapeworld(folder, out):
    """Five stages by family of statements; a statement is asked whether it is true."""
    families = ["existential", "quantification", "relational", "logical", "selection"]
    stages = {name: [] for name in families}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".jsonl"):
            continue
        for n, line in enumerate(open(os.path.join(folder, file))):
            row = json.loads(line)
            stages[next(f for f in families if file.startswith(f))].append(
                {"id": f"{row['type']}-{n}", "image": row["image"], "question": "is it true that " + row["statement"].rstrip(" .") + "?",
                 "answer": "yes" if row["agreement"] >= 0.5 else "no"})
    save(out, folder, [(f, stages[f]) for f in families], "exact", 8)


def shapeworld_words(folder, out):
    """Four stages: what color, what shape, then yes or no, asked whether a statement is true and whether it is false.
    True statements of one object become questions for its color and shape; magenta is purple, a rectangle a square, an
    ellipse a circle, and what the bases have no word for (gray, pentagon, semicircle) is left out."""
    said = {"magenta": "purple", "rectangle": "square", "ellipse": "circle"}
    colors, shapes = {"red", "green", "blue", "yellow", "purple", "cyan"}, {"square", "triangle", "cross", "circle"}
    stages = {"color": [], "shape": [], "true": [], "false": []}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".jsonl") or file.split("-")[0] not in ("existential", "selection"):
            continue
        for n, line in enumerate(open(os.path.join(folder, file))):
            row = json.loads(line)
            words = [said.get(word, word) for word in row["statement"].rstrip(" .").split()]
            if set(words) & {"gray", "pentagon", "semicircle"}:
                continue
            true = row["agreement"] >= 0.5
            key = {"id": f"{row['type']}-{n}", "image": row["image"]}
            stages["true"].append({**key, "question": f"is it true that {' '.join(words)}?", "answer": "yes" if true else "no"})
            stages["false"].append({**key, "question": f"is it false that {' '.join(words)}?", "answer": "no" if true else "yes"})
            if not true or "is" not in words[:-1]:
                continue
            which = "the " + " ".join(words[1:words.index("is")])
            if words[:2] == ["there", "is"]:
                which = "the shape"
            of_color = [word for word in words if word in colors]
            of_shape = [word for word in words if word in shapes]
            if len(of_color) == 1 and of_color[0] not in which.split():
                if of_shape and of_shape[0] not in which.split():
                    which = "the " + of_shape[0]
                stages["color"].append({**key, "question": f"what color is {which}?", "answer": of_color[0]})
            which = "the " + " ".join(words[1:words.index("is")]) if words[0] != "there" else "the shape"
            if len(of_shape) == 1 and of_shape[0] not in which.split():
                if of_color and of_color[0] not in which.split():
                    which = f"the {of_color[0]} one"
                stages["shape"].append({**key, "question": f"what shape is {which}?", "answer": of_shape[0]})
    save(out, folder, list(stages.items()), "exact", 4)


def vqa_rad(folder, out):
    """Four stages by type of question: presence, what kind of picture (plane, modality, organ), where, and the rest."""
    groups = {"PRES": "presence", "PLANE": "picture", "MODALITY": "picture", "ORGAN": "picture", "POS": "position"}
    stages = {"presence": [], "picture": [], "position": [], "other": []}
    for row in json.load(open(os.path.join(folder, "questions.json"))):
        kind = groups.get(row["question_type"].split(",")[0].strip(), "other")
        stages[kind].append({"id": row["qid"], "image": row["image_name"], "question": row["question"], "answer": row["answer"]})
    save(out, os.path.join(folder, "images"), list(stages.items()), "exact", 24)


def main():
    known = {"easy-vqa": easy_vqa, "easy-vqa-words": easy_vqa_words, "shapeworld": shapeworld,
             "shapeworld-words": shapeworld_words, "vqa-rad": vqa_rad}
    if len(sys.argv) != 4 or sys.argv[1] not in known:
        sys.exit(__doc__)
    known[sys.argv[1]](sys.argv[2], sys.argv[3])


main()
