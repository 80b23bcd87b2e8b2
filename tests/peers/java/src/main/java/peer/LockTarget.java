package peer;

import java.util.List;

/** Which lock a request means: its kind and its name, or its names when it is made of several locks. */
record LockTarget(String kind, List<String> names) {

    static LockTarget of(Request request) {
        String kind = request.text("kind").orElse("lock");
        boolean severalNames = kind.equals("multi") || kind.equals("majority");
        return new LockTarget(kind, severalNames ? request.requiredTexts("names") : List.of(request.requiredText("name")));
    }

    String name() {
        return names.get(0);
    }

    LockTarget ofKind(String other) {
        return new LockTarget(other, names);
    }

    LockTarget numbered(int number) {
        return new LockTarget(kind, names.stream().map(name -> name + ":" + number).toList());
    }
}
