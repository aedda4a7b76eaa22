package io.harmonics;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Just enough JSON for reports and settings: objects are maps, numbers are Long or Double. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(String text) {
    return (Map<String, Object>) new Json(text).value();
  }

  static String write(Object value) {
    if (value instanceof Map<?, ?> map) {
      List<String> members = new ArrayList<>();
      map.forEach((key, member) -> members.add(quote(key.toString()) + ":" + write(member)));
      return "{" + String.join(",", members) + "}";
    }
    if (value instanceof Iterable<?> list) {
      List<String> members = new ArrayList<>();
      list.forEach(member -> members.add(write(member)));
      return "[" + String.join(",", members) + "]";
    }
    return value == null || value instanceof Number || value instanceof Boolean
        ? String.valueOf(value)
        : quote(value.toString());
  }

  private static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }

  private Object value() {
    space();
    switch (text.charAt(at)) {
      case '{':
        return members();
      case '[':
        return elements();
      case '"':
        return string();
      default:
        return word();
    }
  }

  private Map<String, Object> members() {
    Map<String, Object> map = new LinkedHashMap<>();
    at++;
    while (!ends('}')) {
      String key = string();
      space();
      at++; // the colon
      map.put(key, value());
    }
    return map;
  }

  private List<Object> elements() {
    List<Object> list = new ArrayList<>();
    at++;
    while (!ends(']')) {
      list.add(value());
    }
    return list;
  }

  /** Passes over a comma; true, having passed it, at the closing character. */
  private boolean ends(char close) {
    space();
    if (text.charAt(at) == ',') {
      at++;
      space();
    }
    if (text.charAt(at) != close) {
      return false;
    }
    at++;
    return true;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    for (at++; text.charAt(at) != '"'; at++) {
      char c = text.charAt(at);
      if (c != '\\') {
        out.append(c);
        continue;
      }
      c = text.charAt(++at);
      switch (c) {
        case 'n' -> out.append('\n');
        case 't' -> out.append('\t');
        case 'r' -> out.append('\r');
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'u' -> {
          out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
          at += 4;
        }
        default -> out.append(c);
      }
    }
    at++;
    return out.toString();
  }

  private Object word() {
    int from = at;
    while (at < text.length() && ",]} \n\t\r".indexOf(text.charAt(at)) < 0) {
      at++;
    }
    String word = text.substring(from, at);
    return switch (word) {
      case "true" -> true;
      case "false" -> false;
      case "null" -> null;
      default -> word.matches("-?\\d{1,18}") ? (Object) Long.valueOf(word) : Double.valueOf(word);
    };
  }

  private void space() {
    while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
      at++;
    }
  }
}
