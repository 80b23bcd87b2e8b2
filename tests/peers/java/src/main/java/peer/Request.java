package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** One line of stdin. The getters throw {@link InvalidRequest} when a field is missing or of the wrong type. */
final class Request {
    private final JsonObject fields;

    private Request(JsonObject fields) {
        this.fields = fields;
    }

    static Request parse(String line) {
        try {
            return new Request(JsonParser.parseString(line).getAsJsonObject());
        } catch (JsonParseException | IllegalStateException notAnObject) {
            throw new InvalidRequest("not a JSON object: " + line);
        }
    }

    /** Whatever the sender chose, to be given back as it is. */
    JsonElement id() {
        return fields.has("id") ? fields.get("id") : JsonNull.INSTANCE;
    }

    String op() {
        return requiredText("op");
    }

    Optional<String> owner() {
        return text("owner");
    }

    Optional<String> text(String field) {
        return primitive(field).map(value -> {
            if (!value.isString() || value.getAsString().isEmpty()) {
                throw new InvalidRequest(field + " must be a non-empty string");
            }
            return value.getAsString();
        });
    }

    String requiredText(String field) {
        return text(field).orElseThrow(() -> missing(field));
    }

    OptionalLong number(String field, long least) {
        Optional<JsonPrimitive> value = primitive(field);
        return value.isPresent() ? OptionalLong.of(wholeNumber(field, value.get(), least)) : OptionalLong.empty();
    }

    JsonElement json(String field) {
        if (!fields.has(field)) {
            throw missing(field);
        }
        return fields.get(field);
    }

    long requiredNumber(String field, long least) {
        return number(field, least).orElseThrow(() -> missing(field));
    }

    boolean flag(String field) {
        return primitive(field).map(value -> {
            if (!value.isBoolean()) {
                throw new InvalidRequest(field + " must be true or false");
            }
            return value.getAsBoolean();
        }).orElse(false);
    }

    List<String> requiredTexts(String field) {
        JsonElement list = fields.get(field);
        if (list == null || !list.isJsonArray() || list.getAsJsonArray().isEmpty()) {
            throw new InvalidRequest(field + " must be a non-empty list of strings");
        }
        List<String> texts = new ArrayList<>();
        for (JsonElement item : list.getAsJsonArray()) {
            if (!(item instanceof JsonPrimitive text) || !text.isString() || text.getAsString().isEmpty()) {
                throw new InvalidRequest(field + " must be a list of non-empty strings");
            }
            texts.add(text.getAsString());
        }
        return List.copyOf(texts);
    }

    private Optional<JsonPrimitive> primitive(String field) {
        JsonElement value = fields.get(field);
        if (value == null || value.isJsonNull()) {
            return Optional.empty();
        }
        if (!value.isJsonPrimitive()) {
            throw new InvalidRequest(field + " must be a plain value");
        }
        return Optional.of(value.getAsJsonPrimitive());
    }

    private static long wholeNumber(String field, JsonPrimitive value, long least) {
        try {
            if (value.isNumber() && value.getAsBigDecimal().longValueExact() >= least) {
                return value.getAsLong();
            }
        } catch (ArithmeticException | NumberFormatException notWhole) {
            // answered below
        }
        throw new InvalidRequest(field + " must be a whole number of at least " + least);
    }

    private static InvalidRequest missing(String field) {
        return new InvalidRequest(field + " is missing");
    }
}
