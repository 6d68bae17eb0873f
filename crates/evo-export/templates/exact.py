"""Numbers with the meaning that expressions have in evo's space files.

That is Python's within 64 bits: a result that does not fit, a division by zero or a text where a number is meant raises
`NoValue`. Sizes are of the type `Exact`, so that formulas over them look as they do in the space file.
"""

import math

LEAST, MOST = -(2**63), 2**63 - 1


class NoValue(ValueError):
    """An expression has no value for these sizes."""


def no_value(why):
    raise NoValue(why)


def _number(value):
    if isinstance(value, Exact):
        return value.n
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    raise NoValue(f"the text `{value}` is used as a number")


def _checked(value):
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NoValue("the result does not fit 64 bits")
    elif not LEAST <= value <= MOST:
        raise NoValue("the result does not fit 64 bits")
    return Exact(value)


def _divisor(value):
    if value == 0:
        raise NoValue("division by zero")
    return value


def _power(a, b):
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if abs(a) > 1 and b > 63:
            raise NoValue("the result does not fit 64 bits")
        return a**b if abs(a) > 1 else (1 if b == 0 else a ** (2 - b % 2))
    a, b = float(a), float(b)
    if a == 0.0 and b < 0.0:
        raise NoValue("division by zero")
    if a < 0.0 and b != math.trunc(b):
        raise NoValue("cannot raise a negative number to a fractional power")
    try:
        return math.pow(a, b)
    except OverflowError:
        raise NoValue("the result does not fit 64 bits") from None


def _operator(compute):
    """An operator and its mirror image, for a plain number to the left."""

    def forward(self, other):
        return _checked(compute(self.n, _number(other)))

    def backward(self, other):
        return _checked(compute(_number(other), self.n))

    return forward, backward


def _relation(compare):
    def relation(self, other):
        if isinstance(other, str):
            raise NoValue(f"the number `{self.n}` and the text `{other}` have no order")
        return compare(self.n, _number(other))

    return relation


class Exact:
    """A whole number of 64 bits, or a finite fraction."""

    __slots__ = ("n",)
    __hash__ = None

    def __init__(self, value):
        self.n = _number(value)

    __add__, __radd__ = _operator(lambda a, b: a + b)
    __sub__, __rsub__ = _operator(lambda a, b: a - b)
    __mul__, __rmul__ = _operator(lambda a, b: a * b)
    __truediv__, __rtruediv__ = _operator(lambda a, b: a / _divisor(b))
    __floordiv__, __rfloordiv__ = _operator(lambda a, b: a // _divisor(b))
    __mod__, __rmod__ = _operator(lambda a, b: a % _divisor(b))
    __pow__, __rpow__ = _operator(_power)
    __lt__ = _relation(lambda a, b: a < b)
    __le__ = _relation(lambda a, b: a <= b)
    __gt__ = _relation(lambda a, b: a > b)
    __ge__ = _relation(lambda a, b: a >= b)

    def __eq__(self, other):
        return not isinstance(other, str) and self.n == _number(other)

    def __neg__(self):
        return _checked(-self.n)

    def __abs__(self):
        return _checked(abs(self.n))

    def __bool__(self):
        return self.n != 0

    def __repr__(self):
        return repr(self.n)


def ceil_div(a, b):
    """`a / b`, rounded up."""
    return -(-Exact(a) // b)


def smallest(values):
    """The first of equals, as `min`; of one value, that value."""
    return min(values)


def largest(values):
    return max(values)


def to_whole(value):
    """A whole number: `4.0` counts as 4."""
    number = _number(value)
    if number != math.floor(number) or not LEAST <= number <= MOST:
        raise NoValue(f"{number} is not a whole number of 64 bits")
    return int(number)


def to_number(value):
    return float(_number(value))


def value_of(compute):
    """What a formula gives; `NoValue` also where Python itself finds no order between a text and a number."""
    try:
        return compute()
    except TypeError as error:
        raise NoValue(str(error)) from None
